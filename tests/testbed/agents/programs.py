# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes inside the pods: what each does when it starts, is signalled, sees a change on the node, or is stopped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.testbed.agents import config_manager, device_plugin, feature_discovery, mps_daemon
from tests.testbed.agents.config_file import Config, ConfigError, parse_config
from tests.testbed.agents.config_manager import SelectionError, Version
from tests.testbed.agents.device_map import effective_mig_strategy
from tests.testbed.agents.kubelet import Registration
from tests.testbed.agents.objects import DAEMON, Json, environment, image_version, manager_settings

if TYPE_CHECKING:
    from tests.testbed.agents.pod_run import PodRun

LOAD_ERROR = "unable to load config: unable to finalize config: unable to parse config file: error parsing config file: "
WAITING_FOR_TOOLKIT = "waiting for nvidia container stack to be setup"


class Program:
    """One run of a container's process. `memory` survives a restart of the agents, nothing else does."""

    def __init__(self, run: PodRun, container: Json) -> None:
        self.run = run
        self.container = container
        self.name = str(container["name"])
        self.node = run.node
        self.delays = run.node.world.delays
        self.memory: dict[str, object] = {}
        self.alive = True

    def start(self) -> None:
        """The process starts."""

    def resume(self) -> None:
        """The agents were restarted while the process ran."""
        self.start()

    def hangup(self) -> None:
        """SIGHUP."""

    def stop(self) -> None:
        """SIGTERM: the pod is deleted."""

    def label_changed(self) -> None:
        """The node's config label has another value."""

    def faults_changed(self) -> None:
        """The node's faults are others."""

    def daemons_changed(self) -> None:
        """An MPS daemon of the node came or went."""

    @property
    def version(self) -> Version:
        return image_version(self.container, self.node.world.plugin_version)

    def log(self, *lines: str) -> None:
        self.run.logs.append(self.name, lines)

    def log_info(self, text: str) -> None:
        self.log(f"I{_klog_stamp()}       1 main.go:128] {text}")

    def fail(self, text: str, exit_code: int = 1) -> None:
        """Log the reason and end the process."""
        self.log(f"E{_klog_stamp()}       1 main.go:173] {text}")
        self.exit(exit_code)

    def exit(self, exit_code: int) -> None:
        if self.alive:
            self.alive = False
            self.run.exited(self.name, exit_code)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run `action` after the delay, unless the process has ended by then."""
        self.node.world.later(seconds, lambda: action() if self.alive else None)

    def faulty(self, fault: str) -> bool:
        return fault in self.node.faults


def _klog_stamp() -> str:
    return datetime.now(UTC).strftime("%m%d %H:%M:%S.%f")


class Step(Program):
    """An init container that just takes its time."""

    def start(self) -> None:
        self.later(self.delays.init_container, lambda: self.exit(0))


class Server(Program):
    """A process that runs until it is stopped."""


class ToolkitValidation(Program):
    """Waits for the container toolkit's marker file."""

    def start(self) -> None:
        if self.faulty("toolkit-validation-stuck"):
            self.log(WAITING_FOR_TOOLKIT)
        else:
            self.later(self.delays.init_container, lambda: self.exit(0))

    def faults_changed(self) -> None:
        self.start()


class ConfigManagerInit(Program):
    """config-manager with ONESHOT: points the pod's config file once."""

    def start(self) -> None:
        self.later(self.delays.init_container, self._select)

    def _select(self) -> None:
        label = config_manager.init_container_label(self.node.config_label, self.version)
        try:
            target = config_manager.select(label, manager_settings(self.container), self.run.keys)
        except SelectionError as error:
            self.fail(str(error))
            return
        self.log_info(f"Updating to config: {target}")
        self.run.link = target
        self.exit(0)


class ConfigManager(Program):
    """The sidecar: follows the node's label, never the file's content."""

    def start(self) -> None:
        self._look_at(config_manager.sidecar_labels(self.node.config_label, self.version))

    def resume(self) -> None:
        self.label_changed()

    def label_changed(self) -> None:
        self._look_at((self.node.config_label,))

    def _look_at(self, labels: tuple[str, ...]) -> None:
        if not labels:
            self.log_info("Waiting for change to 'nvidia.com/device-plugin.config' label")
            return
        self.later(self.delays.sidecar_look, lambda: self._apply(labels[0], labels[1:]))

    def _apply(self, label: str, rest: tuple[str, ...]) -> None:
        self.log_info(f"Label change detected: nvidia.com/device-plugin.config={label}")
        try:
            target = config_manager.select(label, manager_settings(self.container), self.run.keys)
        except SelectionError as error:
            self.fail(str(error))
            return
        if target == self.run.link:
            self.log_info("Already configured. Skipping update...")
        else:
            self.run.link = target
            self.log_info(f"Updating to config: {target}")
            if environment(self.container).get("SEND_SIGNAL") == "true":
                self._signal()
        if self.alive:
            self._look_at(rest)

    def _signal(self) -> None:
        """The MPS daemon is looked for under a path that is not its argv[0], so it is never found."""
        process = self.run.main_program
        if process is None or self.run.operand == DAEMON:
            failure = config_manager.missing_process(self.version, bool(self.run.pod["spec"].get("hostPID")))
            self.fail(failure.message, failure.exit_code)
            return
        self.log_info("Sending signal 'hangup'")
        process.hangup()


class Configured(Program):
    """A process that reads the pod's config file."""

    def read_config(self) -> Config | None:
        """The config, or None after the process has ended with the parser's message."""
        text = self.run.config_text()
        if text is None:
            self.fail(LOAD_ERROR + "error opening config file: open /config/config.yaml: no such file or directory")
            return None
        try:
            return parse_config(text)
        except ConfigError as error:
            self.fail(LOAD_ERROR + str(error))
            return None

    def mig_strategy(self, config: Config) -> str:
        return effective_mig_strategy(environment(self.container).get("MIG_STRATEGY"), config)


class FeatureDiscovery(Configured):
    """Publishes the node's labels from the config it loaded at its start or at SIGHUP."""

    def start(self) -> None:
        if self.faulty("gfd-stuck"):
            self.log_info("Loading configuration.")
        else:
            self.later(self.delays.discovery, self._discover)

    def resume(self) -> None:
        if not self.memory.get("published"):
            self.start()

    def hangup(self) -> None:
        self.log_info("Received SIGHUP, restarting.")
        self.start()

    def stop(self) -> None:
        self.node.discovery_ended(self.version, self.delays.labels_kept)

    def faults_changed(self) -> None:
        if self.faulty("gfd-crash") or not self.memory.get("published"):
            self.start()

    def fail(self, text: str, exit_code: int = 1) -> None:
        self.node.discovery_ended(self.version, self.delays.labels_removed)
        super().fail(text, exit_code)

    def _discover(self) -> None:
        if self.faulty("gfd-crash"):
            self.fail("failed to initialize NVML: Unknown Error")
            return
        config = self.read_config()
        if config is None:
            return
        try:
            sets = feature_discovery.possible_labels(self.node.gpus, config, self.mig_strategy(config), self.version)
        except feature_discovery.DiscoveryError as error:
            self.fail(str(error))
            return
        self.log_info(f"Creating Labels for strategy {config.strategy}")
        self.memory["published"] = True
        self.node.publish_labels(self.node.world.random.choice(sets))


class DevicePlugin(Configured):
    """Registers the node's resources once the control daemon of each answers; asks again otherwise, re-reading the config."""

    _attempt = 0

    def start(self) -> None:
        self.log_info("Starting nvidia-device-plugin")
        self._try_after(self.delays.plugin_start)

    def resume(self) -> None:
        if not self.memory.get("registered"):
            self._try_after(self.delays.plugin_retry)

    def hangup(self) -> None:
        self.log_info("Received SIGHUP, restarting.")
        self._unregister()
        self._try_after(self.delays.plugin_start)

    def stop(self) -> None:
        self._unregister()

    def fail(self, text: str, exit_code: int = 1) -> None:
        self._unregister()
        super().fail(text, exit_code)

    def faults_changed(self) -> None:
        if self.faulty("plugin-crash"):
            self.fail("error starting plugins: failed to initialize NVML: Unknown Error")

    def _try_after(self, seconds: float) -> None:
        """Schedule an attempt; it takes the place of one that is still to come."""
        self._attempt += 1
        attempt = self._attempt
        self.later(seconds, lambda: self._try() if attempt == self._attempt else None)

    def _unregister(self) -> None:
        self.memory["registered"] = False
        self.node.stop_endpoints(self.run.uid)

    def _try(self) -> None:
        if self.faulty("plugin-crash"):
            self.fail("error starting plugins: failed to initialize NVML: Unknown Error")
            return
        config = self.read_config()
        if config is None:
            return
        try:
            plugin = device_plugin.start(self.node.gpus, config, self.mig_strategy(config), self.version)
        except device_plugin.PluginError as error:
            self.fail(str(error))
            return
        self._register(plugin)

    def _register(self, plugin: device_plugin.Plugin) -> None:
        waiting = plugin.unanswered(self.node.host.daemons)
        if waiting or self.faulty("plugin-stuck"):
            for name in waiting:
                self.log(
                    f"E{_klog_stamp()}       1 main.go:286] Failed to start plugin for '{name}': error waiting for MPS daemon: "
                    "error checking MPS daemon health: failed to send command to MPS daemon: exit status 1"
                )
            self.log_info("Failed to start one or more plugins. Retrying in 30s...")
            self._try_after(self.delays.plugin_retry)
            return
        self.memory["registered"] = True
        for resource in plugin.resources:
            self.log_info(f"Registered device plugin for '{resource.name}' with Kubelet")
        self.node.register(
            tuple(
                Registration(
                    resource=resource.name,
                    devices=tuple(device.index for device in resource.devices),
                    replicas=resource.replicas,
                    pipe_directory=plugin.container_environment(resource.name).get("CUDA_MPS_PIPE_DIRECTORY", ""),
                    refuses_more_than_one=plugin.refuses_more_than_one,
                    owner=self.run.uid,
                )
                for resource in plugin.resources
            )
        )


class MpsControlDaemon(Configured):
    """Starts the node's MPS daemons with the limits of the config it read at its start; no signal ever reaches it."""

    def start(self) -> None:
        if self.faulty("daemon-crash"):
            self._crash()
            return
        config = self.read_config()
        if config is None:
            return
        try:
            daemons = mps_daemon.daemons(self.node.gpus, config, self.mig_strategy(config))
        except mps_daemon.DaemonError as error:
            self.fail(str(error))
            return
        if not daemons:
            self.log_info("No devices are configured for MPS sharing; Waiting indefinitely.")
            return
        self.later(self.delays.daemon_start, lambda: self._start_daemons(daemons))

    def resume(self) -> None:
        if self.node.host.owner != self.run.uid:
            self.start()

    def stop(self) -> None:
        if self.node.host.owner == self.run.uid:
            self.node.stop_daemons()

    def faults_changed(self) -> None:
        if self.faulty("daemon-crash"):
            self._crash()
        elif self.faulty("daemon-killed"):
            self._kill()

    def _crash(self) -> None:
        self._kill()
        self.fail("error starting plugins: error starting MPS daemons: exit status 1")

    def _kill(self) -> None:
        if self.node.host.owner == self.run.uid:
            self.node.kill_daemons()

    def _start_daemons(self, daemons: tuple[mps_daemon.Daemon, ...]) -> None:
        if self.faulty("daemon-never-ready") or self.faulty("daemon-selinux"):
            self._report_failed_start()
            self.later(self.delays.plugin_retry, lambda: self._start_daemons(daemons))
            return
        for daemon in daemons:
            self.log_info(f'"Staring MPS daemon" resource="{daemon.resource}"')
        self.node.start_daemons(self.run.uid, daemons)
        if self.faulty("daemon-killed"):
            self._kill()

    def _report_failed_start(self) -> None:
        reason = "exit status 1"
        if self.faulty("daemon-selinux"):
            reason = "error setting SELinux context: failed to set context on /mps/nvidia.com/gpu/pipe: operation not supported"
        self.log(f"E{_klog_stamp()}       1 main.go:204] Failed to start MPS daemons: {reason}")
        self.log_info("Failed to start one or more MPS daemons. Retrying in 30s...")

# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Private to gpuops.mps: catalogue entries for findings about what a config would do on a node's GPUs, and of workload manifests."""

from __future__ import annotations

from ansible_collections.gpuops.mps.plugins.module_utils._catalogue import CatalogueEntry

ENTRIES: tuple[CatalogueEntry, ...] = (
    CatalogueEntry(
        code="gpu-facts-missing",
        severity="warning",
        title="The node's labels do not say what its GPUs are",
        meaning="A label that GPU Feature Discovery writes is not there, so something cannot be checked before the write; the message says what.",
        example="a node without nvidia.com/gpu.compute.major, and replicas: 24",
        why=(
            "The limit on replicas depends on the compute capability, the memory per client on the memory, and the capacity on the number of "
            "GPUs. A guess would let a wrong config through."
        ),
        source="k8s-device-plugin v0.20.0, lm/resource.go: a node without GPUs, or one where GFD fails, has no such labels.",
        remedy="Look whether the gpu-feature-discovery pod of the node runs and whether the node has GPUs; run again when the labels are there.",
    ),
    CatalogueEntry(
        code="mixed-products",
        severity="warning",
        title="The node has GPUs that its labels do not describe",
        meaning=(
            "The node advertises more than the GPUs of its labels account for. As a rule it holds GPUs of several products, and the labels show one of them."
        ),
        example="one Tesla T4 and two NVIDIA L4: nvidia.com/gpu is 3, nvidia.com/gpu.count is 1 or 2",
        why=(
            "GPU Feature Discovery writes the labels of one product, chosen at random at each start. The limits of the other products cannot be "
            "checked, and a group chosen by product may win or lose the node."
        ),
        source="k8s-device-plugin v0.20.0, lm/mig-strategy.go; reports 731 and 736.",
        remedy=(
            "Choose replicas that every product of the node takes, and put the node into its group by name, not by product. On a node of one "
            "product run again when its agents have settled."
        ),
    ),
    CatalogueEntry(
        code="replicas-above-cap",
        severity="error",
        title="More replicas than the MPS control daemon accepts on this GPU",
        meaning="The number of replicas is above the limit of the node's GPU: 48 from compute capability 7.5 on, 16 below, so 16 on Volta too.",
        example="replicas: 17 on a Tesla V100-SXM2-16GB (compute capability 7.0)",
        why=(
            "Only the daemon checks the number, when it starts, and then exits again and again. The labels look right, the plugin waits for the "
            "daemon, and the node advertises no GPU at all."
        ),
        source="k8s-device-plugin v0.20.0, mps/device.go and mps/manager.go.",
        remedy="Declare no more replicas than the limit; give nodes with this GPU a config of their own if others take more.",
    ),
    CatalogueEntry(
        code="replicas-above-cap-unseen",
        severity="error",
        title="More than 16 replicas on a node with GPUs that the labels do not describe",
        meaning="The labels of the node describe one of its products. One of the others may be older than Turing and take 16 replicas only.",
        example="replicas: 20 on a node with one Tesla T4 and one Tesla V100, labelled as a T4",
        why="One GPU above its limit stops the daemon, and with it all GPUs of the node.",
        source="k8s-device-plugin v0.20.0, mps/manager.go: the limit is checked for each GPU of the resource.",
        remedy="Declare at most 16 replicas for the node, or accept this finding when all its GPUs are of compute capability 7.5 or newer.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="gpu-before-volta",
        severity="error",
        title="MPS clients fail on GPUs before Volta",
        meaning="The compute capability of the node's GPU is below 7.0.",
        example="replicas: 4 on a Tesla P4 (compute capability 6.1)",
        why="The daemon starts, and labels and resources look right, but the MPS server does not serve clients in containers on such GPUs.",
        source="k8s-device-plugin, reports 647 and 685; its code does not refuse these GPUs.",
        remedy="Use time-slicing or exclusive GPUs on this node, or accept this finding after a client was seen to run there.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="memory-per-client-small",
        severity="warning",
        title="The memory per client may be too small for a client to start",
        meaning="The GPU's memory divided by the replicas is below what clients on this product are reported to need for a start.",
        example="replicas: 22 on a Tesla T4: 698 MiB for each client process",
        why=(
            "A client needs memory for its CUDA context before it computes anything. Reported: a T4 fails above 21 replicas, an A30 above 30, an "
            "A16 above 5. For other products 800 MiB is taken as the bound. The cause is not confirmed, so this is a warning."
        ),
        source="k8s-device-plugin, report 1118.",
        remedy="Declare fewer replicas, or try a client with the replicas you want before you roll out.",
    ),
    CatalogueEntry(
        code="memory-not-limited",
        severity="warning",
        title="The GPU reports no memory size, so no client's memory is limited",
        meaning="The label nvidia.com/gpu.memory is missing or 0.",
        example="NVIDIA GB10, which shares the memory of its host",
        why=(
            "The MPS control daemon sets a memory limit per client only where the driver reports the memory. Clients can then take each other's "
            "memory; the share of threads is limited all the same."
        ),
        source="k8s-device-plugin v0.20.0, mps/daemon.go.",
        remedy="Limit the memory in the workloads themselves.",
    ),
    CatalogueEntry(
        code="thread-share-rounded",
        severity="info",
        title="A few percent of the GPU's threads stay unused",
        meaning="Each client's share of threads is cut to whole percent, so all shares together are below 100 %.",
        example="replicas: 3 gives 33 % each, 99 % together",
        why="The daemon is given a whole number of percent.",
        source="k8s-device-plugin v0.20.0, mps/daemon.go: integer division of 100.",
        remedy="Nothing needs to be done; 2, 4, 5, 10, 20 or 25 replicas lose nothing.",
    ),
    CatalogueEntry(
        code="thread-share-wasted",
        severity="warning",
        title="A tenth or more of the GPU's threads stay unused",
        meaning="Each client's share of threads is cut to whole percent, and with this number of replicas much is lost.",
        example="replicas: 34 gives 2 % each, 68 % together",
        why=("The daemon is given a whole number of percent. The same share is left with a larger number of replicas, or a larger share with a smaller one."),
        source="k8s-device-plugin v0.20.0, mps/daemon.go: integer division of 100.",
        remedy="Take a number that divides 100 better: 2, 4, 5, 10, 20 or 25 lose nothing, 33 loses 1 %, 48 loses 4 %.",
    ),
    CatalogueEntry(
        code="mig-enabled",
        severity="error",
        title="MPS does not work on a node with a GPU in MIG mode",
        meaning="At least one GPU of the node is in MIG mode, or the MIG manager is told to put it there.",
        example="nvidia.com/mig.config: all-1g.10gb on a node that gets a config with MPS",
        why=(
            "GPU Feature Discovery and the device plugin end with an error when MPS meets MIG, on the whole node even if only one GPU is in MIG "
            "mode. The node advertises no GPU."
        ),
        source="k8s-device-plugin v0.20.0, lm/nvml.go and plugin/mps.go.",
        remedy="Set nvidia.com/mig.config to all-disabled on the node and wait for the state success, or give the node a config without MPS.",
    ),
    CatalogueEntry(
        code="mig-pending",
        severity="error",
        title="The MIG manager has not finished on the node",
        meaning="The label nvidia.com/mig.config.state is not success.",
        example="nvidia.com/mig.config.state: pending",
        why=(
            "The MIG manager takes the operator's pods off the node while it works, and the MIG mode of the GPUs is about to change. What its "
            "failure leaves is not known."
        ),
        source="gpu-operator v25.3.4, the MIG manager's labels.",
        remedy="Wait until the label says success; when it says failed, look into the log of the MIG manager's pod.",
    ),
    CatalogueEntry(
        code="mig-strategy-mixed",
        severity="error",
        title="MPS does not work with the MIG strategy mixed",
        meaning=("The effective MIG strategy is mixed: the ClusterPolicy's spec.mig.strategy, or flags.migStrategy of the config where the policy sets none."),
        example="spec.mig.strategy: mixed in the ClusterPolicy, and a config with MPS",
        why="The device plugin refuses to start with MPS and mixed, on every node, whether it has MIG or not. The labels look right all the same.",
        source="k8s-device-plugin v0.20.0, cmd/nvidia-device-plugin/main.go.",
        remedy="Set spec.mig.strategy of the ClusterPolicy to single or none, or use configs without MPS.",
    ),
    CatalogueEntry(
        code="mig-strategy-overridden",
        severity="info",
        title="The ClusterPolicy's MIG strategy beats the one of the config",
        meaning="The config has a MIG strategy, and spec.mig.strategy of the ClusterPolicy has another.",
        example="mig_strategy: none in the config, spec.mig.strategy: single in the ClusterPolicy (the chart's default)",
        why="The operator passes its MIG strategy in the environment, and the environment beats the file.",
        source="gpu-operator v25.3.4, object_controls.go; k8s-device-plugin v0.20.0, api/config/v1/config.go.",
        remedy="Nothing needs to be done: single is fine with MPS on nodes without MIG. Leave mig_strategy out to have one place that says it.",
    ),
    CatalogueEntry(
        code="mig-layout-unusable",
        severity="error",
        title="The node's MIG layout does not fit the MIG strategy single, or cannot be seen",
        meaning="GPUs are in MIG mode and the effective MIG strategy is single, but the labels show no single kind of MIG device.",
        example="nvidia.com/gpu.product ends in -MIG-INVALID",
        why=(
            "With the strategy single all GPUs of a node have to be in MIG mode, each with at least one device, all of one profile. Else the "
            "device plugin does not start and the node advertises no GPU."
        ),
        source="k8s-device-plugin v0.20.0, lm/mig-strategy.go and rm/device_map.go.",
        remedy="Give the node a MIG layout of one profile on all GPUs, or accept this finding when you know that the layout is so.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="mig-not-predicted",
        severity="error",
        title="The labels and resources of a node with MIG devices are not predicted",
        meaning="The node has GPUs in MIG mode, and what it shows after the change depends on MIG devices that the present labels do not describe.",
        example="the MIG strategy mixed on a node with nvidia.com/mig-1g.5gb devices",
        why=(
            "This collection is about MPS, which does not work with MIG; it does not verify such nodes. A GPU in MIG mode without MIG devices is "
            "not advertised at all."
        ),
        source="k8s-device-plugin v0.20.0, lm/mig-strategy.go.",
        remedy="Leave the node's MIG strategy as it is, or accept this finding and look at the node yourself after the change.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="mig-state-not-visible",
        severity="warning",
        title="The labels cannot tell whether some of the node's GPUs are in MIG mode",
        meaning="The GPUs can do MIG, the node has several, and there is no label of the MIG manager.",
        example="four NVIDIA A100, nvidia.com/mig.capable is true, no label nvidia.com/mig.config",
        why=(
            "Where only some GPUs of a product are in MIG mode, GPU Feature Discovery labels the node as if none were. One such GPU makes it and "
            "the device plugin fail with MPS."
        ),
        source="k8s-device-plugin v0.20.0, lm/mig-strategy.go and lm/nvml.go.",
        remedy="Make sure that no GPU of the node is in MIG mode (nvidia-smi -q, MIG Mode), or enable the MIG manager.",
    ),
    CatalogueEntry(
        code="tegra-unsupported",
        severity="error",
        title="MPS through the device plugin does not work on Jetson and other Tegra systems",
        meaning="The machine, the product or the kernel of the node says Tegra.",
        example="nvidia.com/gpu.machine: NVIDIA-Jetson-AGX-Orin-Developer-Kit",
        why="The MPS control daemon crashes there again and again; the node then advertises no GPU. An arm64 server is not meant.",
        source="k8s-device-plugin, reports 1412 and 1963.",
        remedy="Use time-slicing or exclusive GPUs on this node; accept this finding if the node is no Tegra system.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="wsl-unsupported",
        severity="error",
        title="MPS through the GPU Operator is not supported under WSL",
        meaning="The kernel of the node is the one of the Windows Subsystem for Linux.",
        example="kernel version 5.15.167.4-microsoft-standard-WSL2",
        why="The GPU Operator does not support such nodes, and nothing is known of MPS working there.",
        source="k8s-device-plugin, reports 332 and 646; gpu-operator, report 318.",
        remedy="Keep the node out of the groups with MPS, or accept this finding to try it.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="fail-requests-ignored",
        severity="warning",
        title="failRequestsGreaterThanOne: false may have no effect",
        meaning=(
            "The config asks that a container may request more than one replica, and the device plugin in use is older than 0.20.0 or its version is not known."
        ),
        example="fail_requests_greater_than_one: false with device plugin 0.17.4",
        why=(
            "Before 0.20.0 the device plugin sets the option to true under MPS whatever the file says: a pod that asks for two is placed and then"
            " fails with UnexpectedAdmissionError."
        ),
        source="k8s-device-plugin v0.20.0, api/config/v1/config.go; missing in its changelog.",
        remedy="Let every container request one, or use device plugin 0.20.0 (GPU Operator 26.7.0) or newer.",
    ),
    CatalogueEntry(
        code="fail-requests-off",
        severity="warning",
        title="A container may request several replicas, which gives it no larger share",
        meaning="The config sets failRequestsGreaterThanOne to false, and the device plugin in use honours it.",
        example="fail_requests_greater_than_one: false with device plugin 0.20.0",
        why="Two replicas may be of two GPUs or of one; either way each client process is held to the limits of a single replica.",
        source="k8s-device-plugin v0.20.0, api/config/v1/config.go and rm/rm.go.",
        remedy="Let every container request one; declare fewer replicas where clients need more.",
    ),
    CatalogueEntry(
        code="workload-requests-several",
        severity="error",
        title="A container asks for more than one replica",
        meaning="A container of the workload asks for two or more of a resource that is shared by MPS.",
        example="limits: {nvidia.com/gpu: 2}",
        why=(
            "The scheduler places the pod, but the device plugin refuses the allocation: the pod fails with UnexpectedAdmissionError, and a "
            "Deployment makes the next one at once, hundreds of them."
        ),
        source="k8s-device-plugin v0.20.0, plugin/server.go; versions before 0.20 refuse it under MPS whatever the config says.",
        remedy="Ask for one. A client that needs a larger share needs a config with fewer replicas.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="workload-unknown-resource",
        severity="error",
        title="A container asks for a resource that no device plugin advertises",
        meaning="The name of a resource looks like NVIDIA's GPU but is none that exists.",
        example="limits: {nvidia.com.gpu: 1}",
        why=(
            "A misspelt name without a slash is no extended resource at all, and another name is one that no node has: the pod runs without a GPU"
            " or never runs."
        ),
        source="k8s-device-plugin, report 569.",
        remedy="Ask for nvidia.com/gpu, or for nvidia.com/gpu.shared on nodes whose config renames the resource.",
    ),
    CatalogueEntry(
        code="workload-own-shm",
        severity="error",
        title="A container mounts its own /dev/shm and hides the one of MPS",
        meaning="A container that uses a GPU has a volume mounted at /dev/shm.",
        example="volumeMounts: [{name: cache, mountPath: /dev/shm}]",
        why="The device plugin mounts the MPS daemon's shared memory there. Behind another volume the client does not find it and cannot connect.",
        source="k8s-device-plugin v0.20.0, plugin/mps.go; report 805.",
        remedy="Leave the mount out: the shared memory of MPS holds half of the node's memory.",
        acceptable=True,
    ),
    CatalogueEntry(
        code="workload-host-ipc",
        severity="info",
        title="hostIPC is not needed for MPS",
        meaning="The pod shares the IPC namespace of its node.",
        example="hostIPC: true",
        why=(
            "Some documents of other stacks ask for it. Here the device plugin mounts all that a client needs, and Pod Security refuses hostIPC "
            "in most namespaces."
        ),
        source="k8s-device-plugin v0.20.0, plugin/mps.go; report 843.",
        remedy="Leave hostIPC out.",
    ),
    CatalogueEntry(
        code="workload-sees-all-gpus",
        severity="warning",
        title="A container sees every GPU of its node, past the device plugin",
        meaning="A container that uses a GPU is privileged, or sets NVIDIA_VISIBLE_DEVICES to all.",
        example="env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]",
        why="It can use GPUs that the device plugin gave to others, and without the MPS limits.",
        source="k8s-device-plugin, reports 1299 and 1695.",
        remedy="Leave the variable out and the container unprivileged, and ask for nvidia.com/gpu.",
    ),
    CatalogueEntry(
        code="workload-selector-stops-fitting",
        severity="warning",
        title="No GPU node fits the workload's node selection after the change",
        meaning="The workload selects its nodes by a label that the change gives another value on every node it fits now.",
        example="nodeSelector: {nvidia.com/gpu.product: Tesla-T4} while the nodes become Tesla-T4-SHARED",
        why=(
            "Sharing without a rename adds -SHARED to the product label and changes the labels of replicas and strategy. Running pods stay; the "
            "next ones stay pending."
        ),
        source="k8s-device-plugin v0.20.0, lm/resource.go.",
        remedy="Select by a label that does not change, such as nvidia.com/gpu.family or a label of your own, or by both values.",
    ),
    CatalogueEntry(
        code="workload-resource-vanishes",
        severity="warning",
        title="No GPU node advertises what the workload asks for after the change",
        meaning="The workload asks for a resource, and the nodes it fits now will advertise none or less of it.",
        example="limits: {nvidia.com/gpu: 1} while all nodes get a config with rename_by_default: true",
        why=(
            "With a rename the device plugin advertises nvidia.com/gpu.shared only, without one nvidia.com/gpu only. Running pods stay until the "
            "plugin restarts; the next ones stay pending."
        ),
        source="k8s-device-plugin v0.20.0, rm/device_map.go.",
        remedy="Change the workload to the name that its nodes advertise then.",
    ),
    CatalogueEntry(
        code="workload-fewer-nodes",
        severity="info",
        title="The workload fits fewer GPU nodes after the change",
        meaning="Some of the nodes that the workload fits now do not fit it after the change.",
        example="a node selector on nvidia.com/gpu.replicas: '4' while half of the nodes get another config",
        why="Labels and resource names of the nodes change with their config.",
        source="k8s-device-plugin v0.20.0, lm/resource.go and rm/device_map.go.",
        remedy="Nothing needs to be done if the remaining nodes are enough.",
    ),
    CatalogueEntry(
        code="quota-meaning-changes",
        severity="warning",
        title="A resource quota counts something else after the change",
        meaning="The quota limits a GPU resource, and what one of it is changes with the config of the nodes.",
        example="requests.nvidia.com/gpu: 4 while the nodes go from whole GPUs to four replicas each",
        why="A quota counts replicas, not GPUs; and a quota on a name that no node advertises limits nothing.",
        source="Kubernetes counts extended resources by name; k8s-device-plugin v0.20.0, rm/device_map.go.",
        remedy="Set the quota for the resource and the replicas after the change.",
    ),
    CatalogueEntry(
        code="limit-range-meaning-changes",
        severity="warning",
        title="A limit range counts something else after the change",
        meaning="The limit range limits a GPU resource or gives a default for it, and what one of it is changes with the config of the nodes.",
        example="max: {nvidia.com/gpu: 2} while the nodes go from whole GPUs to four replicas each",
        why="A limit range counts replicas, not GPUs; and one on a name that no node advertises limits nothing.",
        source="Kubernetes counts extended resources by name; k8s-device-plugin v0.20.0, rm/device_map.go.",
        remedy="Set the limit range for the resource and the replicas after the change.",
    ),
)

# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Play the GPU nodes of a test bed: python -m tests.testbed.agents --kubeconfig K --state-dir D --plugin-version V."""

from __future__ import annotations

import argparse
import logging
import re
from pathlib import Path

from tests.testbed.agents.cluster_io import Api, read_kubeconfig
from tests.testbed.agents.config_manager import Version
from tests.testbed.agents.delays import INSTANT, Delays, read_delays
from tests.testbed.agents.runtime import Runtime

WRITERS = 8


def version(text: str) -> Version:
    match = re.fullmatch(r"v?(\d+)\.(\d+)\.(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no version such as 0.17.4")
    major, minor, patch = map(int, match.groups())
    return major, minor, patch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--state-dir", type=Path, required=True, help="nodes' state and containers' logs")
    parser.add_argument("--plugin-version", type=version, default=(0, 17, 4), help="where an image's tag is no version")
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument("--delays", type=Path, help="a YAML file with other delays")
    speed.add_argument("--instant", action="store_true", help="no delays, no Event objects: for fleets")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    delays = INSTANT if arguments.instant else read_delays(arguments.delays) if arguments.delays else Delays()
    api = Api(read_kubeconfig(arguments.kubeconfig), connections=WRITERS + 4)
    Runtime(api, arguments.state_dir.resolve(), delays, arguments.plugin_version, WRITERS).run()


if __name__ == "__main__":
    main()

# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_nodes
short_description: GPU nodes of a Kubernetes cluster as hosts, grouped by product, sharing config and drift
version_added: 0.1.0
author:
  - gpuops.mps contributors (@gpuops)
description:
  - Makes a host of every GPU node, with what M(gpuops.mps.mps_info) tells about it in the variable C(gpu_node).
  - All hosts are in the group C(gpu_nodes), and each is in groups such as C(product_tesla_t4) (the product without C(-SHARED), so that
    turning sharing on moves no host), C(config_mps_four) and C(sharing_mps). The group C(drift) holds the nodes that somebody has changed
    since they were last verified.
  - The cluster is read once, in as many requests as there are kinds of objects and pages of nodes.
  - The file's name must end with C(gpu_nodes.yml) or C(gpu_nodes.yaml).
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: Must be V(gpuops.mps.gpu_nodes).
    type: str
    required: true
    choices: [gpuops.mps.gpu_nodes]
  namespace:
    description: Namespace of the GPU Operator. By default it is found from the ClusterPolicy.
    type: str
seealso:
  - module: gpuops.mps.mps_info
"""

EXAMPLES = r"""
---
# clusters/a.gpu_nodes.yml
plugin: gpuops.mps.gpu_nodes
context: cluster-a
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/gpu_nodes
cache_timeout: 300
compose:
  replicas: gpu_node.labels['nvidia.com/gpu.replicas'] | default(1) | int
keyed_groups:
  - key: gpu_node.gpus.architecture
    prefix: architecture
groups:
  stale: gpu_node.running == 'stale'
"""

import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.gpuops.mps.plugins.module_utils._cluster import AUTH_ARG_SPEC, Cluster, ClusterError
from ansible_collections.gpuops.mps.plugins.module_utils._cluster_snapshot import read_snapshot
from ansible_collections.gpuops.mps.plugins.module_utils._gpu_hosts import Host, gpu_hosts

GROUP = "gpu_nodes"


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Fetch (or take from the cache), then populate."""

    NAME = "gpuops.mps.gpu_nodes"

    def verify_file(self, path: str) -> bool:
        """Whether the file is meant for this plugin."""
        return super().verify_file(path) and path.endswith((f"{GROUP}.yml", f"{GROUP}.yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        """Fill the inventory; raises AnsibleParserError that says what is wrong with the cluster or the access to it."""
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self._populate(self._hosts(self.get_cache_key(path), cache))

    def _hosts(self, key: str, cache: bool) -> list[Host]:
        """The hosts, from the cache where that is wanted and it holds them."""
        wanted = self.get_option("cache")
        if cache and wanted and key in self._cache:
            return self._cache[key]
        hosts = self._fetch()
        if wanted:
            self._cache[key] = hosts
        return hosts

    def _fetch(self) -> list[Host]:
        parameters = {name: self.get_option(name) for name in AUTH_ARG_SPEC}
        try:
            return gpu_hosts(read_snapshot(Cluster.connect(parameters), namespace=self.get_option("namespace")))
        except ClusterError as error:
            raise AnsibleParserError(f"{error.message}. {error.remedy}") from error

    def _populate(self, hosts: list[Host]) -> None:
        self.inventory.add_group(GROUP)
        strict = self.get_option("strict")
        for host in hosts:
            name = self.inventory.add_host(host["name"], group=GROUP)
            self.inventory.set_variable(name, "gpu_node", host["facts"])
            for group in host["groups"]:
                self.inventory.add_child(self.inventory.add_group(group), name)
            variables = self.inventory.get_host(name).get_vars()
            self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
            variables = self.inventory.get_host(name).get_vars()
            self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)

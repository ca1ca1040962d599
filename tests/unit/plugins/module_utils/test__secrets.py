# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest

from ansible_collections.gpuops.mps.plugins.module_utils._secrets import is_content, kubeconfig_secrets

USER = {
    "token": "the-token",
    "tokenFile": "/var/run/token",
    "password": "the-password",
    "username": "admin",
    "client-key-data": "the-key",
    "client-certificate": "/etc/client.crt",
    "auth-provider": {"name": "oidc", "config": {"client-secret": "the-client-secret", "id-token": "the-id-token", "client-id": "kubernetes"}},
    "exec": {
        "command": "aws",
        "args": ["eks", "get-token"],
        "env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "the-aws-secret"}, {"name": "AWS_PROFILE", "value": "default"}],
    },
}
KUBECONFIG = {"apiVersion": "v1", "clusters": [{"name": "here", "cluster": {"server": "https://here"}}], "users": [{"name": "admin", "user": USER}]}
SECRETS = {"the-token", "the-password", "the-key", "the-client-secret", "the-id-token", "the-aws-secret"}


def test_secrets_are_found_and_nothing_else() -> None:
    assert kubeconfig_secrets(KUBECONFIG) == SECRETS


def test_they_are_found_in_a_text_where_a_path_belongs() -> None:
    assert kubeconfig_secrets(json.dumps(KUBECONFIG)) == SECRETS
    assert kubeconfig_secrets("users:\n- user:\n    token: the-token\n") == {"the-token"}


@pytest.mark.parametrize("value", [None, "", "/home/me/config", "~/.kube/config", 7, [], "a:\n- [", "{" * 9_000, {"token": "abc"}, {"token": {"a": "b"}}])
def test_what_holds_none_has_none(value: object) -> None:
    assert kubeconfig_secrets(value) == frozenset()


@pytest.mark.parametrize(("text", "content"), [("/a/b", False), ("/a/b\n", False), ("~/c d", False), ("{}", True), ("a: 1\nb: 2", True)])
def test_a_path_is_told_from_a_content(text: str, content: bool) -> None:
    assert is_content(text) is content

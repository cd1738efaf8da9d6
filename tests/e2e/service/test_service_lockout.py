# SPDX-License-Identifier: Apache-2.0
"""The real daemon with all its controllers starts whatever admission a user has configured."""

import json

from tests.e2e.service.service_world import World

_RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
_API = "admissionregistration.k8s.io/v1"
_OBJECTS = (
    {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "deny"},
        "spec": {
            "matchConstraints": {"resourceRules": [_RULE]},
            "validations": [{"expression": "false"}],
        },
    },
    {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "deny"},
        "spec": {"policyName": "deny", "validationActions": ["Deny"]},
    },
    *(
        {
            "apiVersion": _API,
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": "dead"},
            "webhooks": [
                {
                    "name": "dead.example.com",
                    "clientConfig": {"url": "https://127.0.0.1:1/dead"},
                    "rules": [_RULE],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": 1,
                }
            ],
        }
        for kind in ("Validating", "Mutating")
    ),
)


def test_daemon_starts_with_admission_that_rejects_everything(world: World) -> None:
    world.rdd("svc", "start")
    manifest = world.home / "lockout.yaml"
    # Webhooks first: they are exempt from webhooks, while the policy rejects them.
    items = [*_OBJECTS[2:], *_OBJECTS[:2]]
    manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    world.kubectl("create", "-f", str(manifest))
    world.rdd("svc", "stop")
    world.rdd("svc", "start")
    # The policy is deleted through the API; it never applies to itself.
    world.kubectl("delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "deny")
    world.rdd("svc", "stop")
    done = world.rdd("svc", "start", "--without-user-admission")
    assert done.messages[-1] == f"{world.title} is ready"
    assert "(--without-user-admission)" in world.log()
    world.write_first()
    world.kubectl("delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "dead")
    world.rdd("svc", "stop")
    world.rdd("svc", "start")
    world.write_first("second")

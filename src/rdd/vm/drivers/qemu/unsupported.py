# SPDX-License-Identifier: Apache-2.0
"""The fields of a template that this driver ignores, for warnings."""

from rdd.vm.template.model import Template


def unsupported_fields(template: Template) -> list[str]:
    """Return the names of the fields that are set and have no effect."""
    is_set = {
        "audio.device": template.audio.device not in ("", "none", "default"),
        "video.display": template.video.display not in ("", "none"),
        "nestedVirtualization": template.nested_virtualization,
    }
    return [name for name, found in is_set.items() if found]

# SPDX-License-Identifier: Apache-2.0
"""The rules of one level of a schema, compiled.

What checking a definition and validating objects have in common: a rule becomes
a program for itself and one for its message, or the reason why it does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rdd import cel
from rdd.schema import fieldpath
from rdd.schema.rules.types import Schema, field_name

RULES = "x-kubernetes-validations"
SELF, OLD_SELF = "self", "oldSelf"


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule ready to run, or the reason why it is not."""

    source: Mapping[str, Any]
    program: cel.Program | None
    message: cel.Program | None
    error: str = ""
    message_error: str = ""
    field_path: str = ""

    @property
    def uses_old(self) -> bool:
        """Whether the rule compares with the old value."""
        return self.program is not None and OLD_SELF in self.program.referenced

    @property
    def title(self) -> str:
        """What errors call the rule."""
        return str(self.source.get("message") or self.source["rule"]).strip()


def compile_node_rules(schema: Schema, declared: cel.types.Type) -> list[CompiledRule]:
    """The rules of one level of a schema, which has the given type. Never raises."""
    plain: cel.Environment | None = None
    optional: cel.Environment | None = None
    found = []
    for rule in schema.get(RULES) or ():
        if rule.get("optionalOldSelf"):
            if optional is None:
                optional = _environment(declared, cel.types.optional_of(declared))
            found.append(_compile_rule(rule, schema, optional))
        else:
            if plain is None:
                plain = _environment(declared, declared)
            found.append(_compile_rule(rule, schema, plain))
    return found


def _environment(declared: cel.types.Type, old: cel.types.Type) -> cel.Environment:
    return cel.Environment({SELF: declared, OLD_SELF: old}, size_root=declared)


def _compile_rule(
    rule: Mapping[str, Any], schema: Schema, environment: cel.Environment
) -> CompiledRule:
    if not (rule.get("rule") or "").strip():
        return CompiledRule(rule, None, None)
    try:
        program = environment.compile(rule["rule"])
    except cel.CompileError as error:
        return CompiledRule(rule, None, None, error=f"compilation failed: {error}")
    if not cel.types.same(program.result_type, cel.types.BOOL):
        return CompiledRule(rule, None, None, error="cel expression must evaluate to a bool")
    message, message_error = None, ""
    if rule.get("messageExpression"):
        try:
            message = environment.compile(rule["messageExpression"])
        except cel.CompileError as error:
            message_error = f"messageExpression compilation failed: {error}"
        else:
            if not cel.types.same(message.result_type, cel.types.STRING):
                message, message_error = None, "messageExpression must evaluate to a string"
    place = ""
    if rule.get("fieldPath"):
        try:
            place = fieldpath.resolve(rule["fieldPath"], schema)[0]
        except fieldpath.FieldPathError:
            pass  # such a definition is refused; one that is stored already keeps its own place
    return CompiledRule(rule, program, message, message_error=message_error, field_path=place)


def property_type(name: str, parent: cel.types.Type) -> cel.types.Type | None:
    """The type of a property of an object type; None when it has none that is declared."""
    field = parent.fields.get(field_name(name))
    return None if field is None else field.type


def has_rules(schema: Any) -> bool:
    """Whether a schema has rules anywhere."""
    pending = [schema]
    while pending:
        sub = pending.pop()
        if not isinstance(sub, Mapping):
            continue
        if sub.get(RULES):
            return True
        pending.extend((sub.get("properties") or {}).values())
        pending += (sub.get("items"), sub.get("additionalProperties"))
    return False

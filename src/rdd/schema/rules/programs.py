# SPDX-License-Identifier: Apache-2.0
"""The compiled rules of one level of a schema.

Checks of definitions and validation of objects share this: a rule is compiled to one program, and
its message to another, or to the reason why it does not compile.
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
    """A compiled rule, or the reason why it does not compile."""

    source: Mapping[str, Any]
    program: cel.Program | None
    message: cel.Program | None
    error: str = ""
    message_error: str = ""
    field_path: str = ""

    @property
    def uses_old(self) -> bool:
        """Return whether the rule uses the old value."""
        return self.program is not None and OLD_SELF in self.program.referenced

    @property
    def title(self) -> str:
        """The name of the rule in errors."""
        return str(self.source.get("message") or self.source["rule"]).strip()


def compile_node_rules(schema: Schema, declared: cel.types.Type) -> list[CompiledRule]:
    """Compile the rules of one level of a schema with the given type; never raise."""
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
    except cel.ProgramError as error:
        reason = f"program instantiation failed: {error}"
        if not _is(error.result_type, cel.types.BOOL):
            reason = "cel expression must evaluate to a bool"
        return CompiledRule(rule, None, None, error=reason)
    except cel.CompileError as error:
        return CompiledRule(rule, None, None, error=f"compilation failed: {error}")
    if not cel.types.same(program.result_type, cel.types.BOOL):
        return CompiledRule(rule, None, None, error="cel expression must evaluate to a bool")
    message, message_error = None, ""
    if rule.get("messageExpression"):
        try:
            message = environment.compile(rule["messageExpression"])
        except cel.ProgramError as error:
            message_error = f"messageExpression instantiation failed: {error}"
            if not _is(error.result_type, cel.types.STRING):
                message_error = "messageExpression must evaluate to a string"
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
            pass  # such a definition is rejected; a stored one keeps its own path
    return CompiledRule(rule, program, message, message_error=message_error, field_path=place)


def _is(found: cel.types.Type | None, wanted: cel.types.Type) -> bool:
    return found is not None and cel.types.same(found, wanted)


def property_type(name: str, parent: cel.types.Type) -> cel.types.Type | None:
    """Return the type of a declared property of an object type, or None."""
    field = parent.fields.get(field_name(name))
    return None if field is None else field.type


def has_rules(schema: Any) -> bool:
    """Return whether a schema has rules at any level."""
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

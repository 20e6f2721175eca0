"""Whether a type leaves a choice: a type comes in, True where it surely has several values goes out.

False does not say that there is only one: what depends on the data (a quote from a text) or would have to be
computed (a pattern, a schema) counts as if it might be forced.
"""

from __future__ import annotations

from decimal import Decimal

from pastalang.program import types as t
from pastalang.values.lengths import spell


def leaves_choice(type: t.Type) -> bool:
    match type:
        case t.Literal() | t.Null() | t.Verbatim() | t.Regex() | t.Schema() | t.Named():
            return False
        case t.Boolean() | t.Temporal() | t.Uuid() | t.Anything():
            return True
        case t.String(max_chars=most, pattern=pattern, format=form):
            return most != 0 and pattern is None and form is None
        case t.Integer() | t.Number():
            return type.multiple_of is None and _is_wide(type)
        case t.Array(item=item, min_items=least, max_items=most):
            return most != 0 and (least != most or leaves_choice(item))
        case t.Map(key_pattern=pattern, max_items=most):
            return most != 0 and pattern is None
        case t.Tuple(items=items):
            return any(leaves_choice(item) for item in items)
        case t.Object(fields=fields):
            return any(leaves_choice(field.type) for field in fields)
        case t.Union(arms=arms):
            closed = {spell(arm.value, quoted=False) for arm in arms if isinstance(arm, t.Literal)}
            closed |= {"null" for arm in arms if isinstance(arm, t.Null)}
            return len(closed) > 1 or any(leaves_choice(arm) for arm in arms)


def _is_wide(type: t.Integer | t.Number) -> bool:
    """Whether the bounds leave room for two whole numbers at least."""
    lows = [bound for bound in (type.minimum, type.exclusive_minimum) if bound is not None]
    highs = [bound for bound in (type.maximum, type.exclusive_maximum) if bound is not None]
    return not lows or not highs or Decimal(min(highs)) - Decimal(max(lows)) >= 3

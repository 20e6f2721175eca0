"""`pasta models`: the models of this machine, and which of them answers when none is named."""

from __future__ import annotations

import json

from pastalang.cli.exit_codes import EXIT_UNREADABLE, Refused
from pastalang.cli.options import AsJson
from pastalang.cli.output import echo, echo_document
from pastalang.cli.process import exits_with_code
from pastalang.errors import PastaError
from pastalang.runtime.models.choice import Choice, Found, default_model, models_here


@exits_with_code
def command(as_json: AsJson = False) -> None:
    try:
        chosen = default_model()
    except PastaError as problem:
        raise Refused(str(problem), EXIT_UNREADABLE) from problem
    found = list(models_here())
    if chosen.name not in [one.name for one in found]:
        found.append(Found(chosen.name, "named as the default"))
    if as_json:
        listed = [
            {
                "name": one.name,
                "about": one.about,
                "is_here": one.is_here,
                "is_default": one.name == chosen.name,
                "adapters": list(one.adapters),
                "own_adapter": one.own,
            }
            for one in found
        ]
        echo_document(json.dumps({"models": listed, "named_by": chosen.where}, ensure_ascii=False))
        return
    width = max(len(one.name) for one in found)
    for one in found:
        echo(f"{'*' if one.name == chosen.name else ' '} {one.name:{width}}  {one.about}")
        for adapter in one.adapters:
            use = "which is used unless --adapter names another" if adapter == one.own else f"--adapter {adapter}"
            echo(f"  {'':{width}}  + adapter {adapter}, {use}")
    echo(f"\n* answers when no model is named{_because(chosen)}")


def _because(chosen: Choice) -> str:
    if chosen.where is not None:
        return f": {chosen.where} names it"
    return '; name another with --model, PASTALANG_MODEL, or a line `model = "..."` in pasta.toml'

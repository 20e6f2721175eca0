"""Check a plan against every rule. This runs on each plan that is built or read; a breach is a mistake of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from pastalang.plan import rules
from pastalang.plan.plan import Plan

Rule: TypeAlias = Callable[[Plan], Iterator[str]]

# The others take these for granted.
FORM: Final[tuple[tuple[str, Rule], ...]] = (
    (
        "every branch but the root is forked exactly once, by its parent",
        rules.every_branch_is_forked_once_by_its_parent,
    ),
    ("every branch, and so every hole, can be reached from the root", rules.every_branch_can_be_reached),
)

RULES: Final[tuple[tuple[str, Rule], ...]] = (
    *FORM,
    ("a text is placed once, after its fork", rules.a_text_is_placed_after_its_fork),
    ("no two fields have the same name", rules.fields_have_names_of_their_own),
    ("no two branches have the same name", rules.branches_have_names_of_their_own),
    ("a list to go through is written by some branch", rules.a_list_to_go_through_exists),
    ("every hole may take at least one token", rules.a_hole_has_room),
    ("threads follow the tags of their text", rules.threads_follow_the_tags_of_their_text),
    (
        "the leads of a choice are distinct, and none begins another",
        rules.the_leads_of_a_choice_are_distinct,
    ),
    ("an item differs at once from the end of its list", rules.an_item_differs_from_the_end_of_its_list),
    ("no branches wait for one another", rules.no_branches_wait_for_one_another),
    ("only what can end is joined", rules.only_what_can_end_is_joined),
    ("something is fed between a join and the next decision", rules.something_is_fed_after_a_join),
    ("a view holds only what comes before", rules.a_view_holds_only_what_comes_before),
    ("a view holds the whole way from the root", rules.a_view_holds_the_whole_way_from_the_root),
    ("memory is kept while it can be seen", rules.memory_is_kept_while_it_can_be_seen),
    ("positions never go back", rules.positions_never_go_back),
    ("documents of a stack start at one position", rules.documents_of_a_stack_start_at_one_position),
    ("values in lock-step fit their gaps", rules.values_in_lock_step_fit_their_gaps),
    ("the values of a lock-step group are numbered from 0", rules.a_lock_step_group_counts_its_values),
)


class BrokenPlan(AssertionError):
    """A plan breaks one of the rules. The program is correct."""

    def __init__(self, plan: Plan, rule: str, breach: str) -> None:
        super().__init__(
            f"the plan of template {plan.template!r} breaks a rule ({rule}): {breach}. "
            "This is a mistake in PastaLang, not in the program; please report it together with the program."
        )
        self.rule = rule
        self.breach = breach


def verify(plan: Plan) -> None:
    """Raise `BrokenPlan` for the first rule that is broken."""
    for rule, breach in breaches(plan):
        raise BrokenPlan(plan, rule, breach)


def breaches(plan: Plan) -> Iterator[tuple[str, str]]:
    """Every broken rule with what breaks it; of a plan that is not even a tree only that."""
    is_formed = True
    for sentence, rule in RULES:
        if (sentence, rule) not in FORM and not is_formed:
            return
        for breach in rule(plan):
            is_formed = is_formed and (sentence, rule) not in FORM
            yield sentence, breach

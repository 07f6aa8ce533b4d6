"""What is asked of a simulated cluster: trees of jobs, drawn from the seed."""

import random
from typing import Any, Final

from tests.simulation.functions import Spec, retagged

KINDS_AND_WEIGHTS: Final = (
    ("mutation", 10),
    ("action", 6),
    ("push", 8),
    ("newer", 2),
    ("renew_self", 1),
)
DELAYS: Final = (0, 0, 0, 0.05, 0.5, 2.0, 6.0)
DEPTH_MAX: Final = 3
FLOOD: Final = 90


class Workload:
    """Draws specs; every tag it gives is unlike every other."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._roots = 0

    def roots(self, count: int) -> list[Spec]:
        """That many roots, each with whatever grows on it."""
        return [self._root() for _ in range(count)]

    def _root(self) -> Spec:
        self._roots += 1
        spec = self._spec(f"t{self._roots}", DEPTH_MAX)
        draw = self._chance.random()
        if draw < 0.16:
            spec = {**self._mutation(f"t{self._roots}", 1), "how": "once"}
        elif draw < 0.32:
            spec = {**self._mutation(f"t{self._roots}", 2), "how": "call"}
        elif draw < 0.42:
            spec["how"] = "cancel"
        else:
            spec["how"] = "schedule"
        if self._chance.random() < 0.15:
            spec = {**self._burst(f"t{self._roots}"), "how": "call"}
        spec["tenant"] = self._chance.choice(("default", "default", "red", "blue"))
        return spec

    def _burst(self, tag: str) -> Spec:
        """Pairs of items, the second soon after the first: so a sweep and the item after it may share a commit."""
        children = []
        for group in range(6):
            for number, delay in enumerate((0, self._chance.choice((0.02, 0.1, 0.3, 0.6)))):
                item = {"tag": f"{tag}.{group}.{number}", "kind": "push", "delay": delay, "group": f"{tag}.{group}"}
                children.append(item)
        return {"tag": tag, "kind": "mutation", "children": children}

    def poison(self) -> Spec:
        """A job that kills whoever runs it, in the midst of others that are due at the same time."""
        self._roots += 1
        tag = f"t{self._roots}"
        kinds = ["mutation"] * self._chance.choice((1, 3, 6))
        poison = self._chance.choice(("poison", "poison_act"))
        kinds.insert(self._chance.randrange(len(kinds) + 1), poison)
        children: list[Spec] = [{"tag": f"{tag}.{n}", "kind": kind, "delay": 0.5} for n, kind in enumerate(kinds)]
        for number in range(self._chance.choice((0, 2, 8))):
            # Bystanders that come and go while it is found out which job it was: some become suspects themselves.
            delay, takes = self._chance.choice((0.5, 0.5, 2.0, 5.0, 9.0)), self._chance.choice((0.3, 1.0, 3.0))
            action = {"tag": f"{tag}.a{number}", "kind": "action", "delay": delay, "takes": takes}
            children.append(action | {"retry": 20, "first": 0.001})
        for child in children:
            if child["kind"] == "poison_act":
                # As soon as the others that its worker held, so that they meet again.
                child |= {"retry": 20, "first": 0.001, "takes": self._chance.choice((0, 0.01, 0.3, 0.6))}
        return {"tag": tag, "kind": "mutation", "how": "call", "tenant": "default", "children": children}

    def flood(self) -> list[Spec]:
        """Many jobs of a large tenant, and small tenants whose jobs come one after another meanwhile."""
        many = [{"tag": "", "kind": kind, "delay": 1.0} for kind in ("push", "push", "action")] * (FLOOD // 3)
        specs: list[Spec] = [{"kind": "mutation", "how": "call", "tenant": "default", "children": many}]
        for tenant in ("red", "blue"):
            children = [{"tag": "", "kind": "mutation"}, {"tag": "", "kind": "action"}] * 6
            small: Spec = {"kind": "action", "how": "schedule", "tenant": tenant, "children": children}
            specs.append(small | {"delay": self._chance.choice((0, 0.5)), "takes": self._chance.choice((0.1, 0.3))})
        self._roots += len(specs)
        return [retagged(spec, f"t{self._roots - n}") for n, spec in enumerate(specs)]

    def simple(self, *, takes: float) -> list[Spec]:
        """A few jobs without any trick; the actions take that many seconds."""
        specs: list[Spec] = []
        for kind in ("mutation", "action", "push", "newer", "action"):
            self._roots += 1
            spec = {"tag": f"t{self._roots}", "kind": kind, "how": "schedule", "tenant": "default", "tell": True}
            specs.append(spec | ({"takes": takes} if kind == "action" else {}))
        return specs

    def _spec(self, tag: str, depth: int) -> Spec:
        weights = [weight for _, weight in KINDS_AND_WEIGHTS]
        kind = self._chance.choices([kind for kind, _ in KINDS_AND_WEIGHTS], weights)[0]
        if kind == "action":
            spec = self._action(tag, depth)
        elif kind == "push":
            spec = {"tag": tag, "kind": kind}
        elif kind == "renew_self":
            spec = {"tag": tag, "kind": kind, "key": f"self-{tag}"}
        else:
            spec = {**self._mutation(tag, depth), "kind": kind}
        return self._options(spec)

    def _options(self, spec: Spec) -> Spec:
        chance = self._chance
        spec["delay"] = chance.choice(DELAYS)
        if chance.random() < 0.25:
            spec["tell"] = True
            if sum(map(ord, spec["tag"])) % 4 == 0:  # not drawn: recorded seeds stay what they are
                spec["tell_for"] = ["failed", "canceled"]
        if chance.random() < 0.3:
            spec["retry"] = chance.choice((2, 3))
        if chance.random() < 0.1 and "key" not in spec:
            spec["key"] = chance.choice(("k1", "k2"))
            spec["on_conflict"] = chance.choice(("keep", "replace"))
        return spec

    def _mutation(self, tag: str, depth: int) -> Spec:
        chance = self._chance
        spec: dict[str, Any] = {"tag": tag, "kind": "mutation", "count": chance.random() < 0.5}
        if depth > 0:
            spec["children"] = [self._spec(f"{tag}.{n}", depth - 1) for n in range(chance.choice((0, 0, 1, 2)))]
        if chance.random() < 0.2:
            spec["fail"] = chance.choice((1, 1, 99))
        if depth > 0 and chance.random() < 0.25:
            spec["nested"] = {**self._mutation(f"{tag}.n", depth - 1), "fail": chance.choice((0, 99))}
        if chance.random() < 0.08:
            spec["cancel"] = True
        return spec

    def _action(self, tag: str, depth: int) -> Spec:
        chance = self._chance
        spec: dict[str, Any] = {"tag": tag, "kind": "action", "takes": chance.choice((0, 0.1, 1.0, 4.0, 9.0))}
        if depth > 0:
            spec["children"] = [
                {**self._mutation(f"{tag}.{n}", depth - 2), "call": True}
                if chance.random() < 0.4
                else self._spec(f"{tag}.{n}", depth - 2)
                for n in range(chance.choice((0, 1, 2)))
            ]
        if chance.random() < 0.2:
            spec["fail"] = chance.choice((1, 99))
        if chance.random() < 0.15:
            spec["cancel"] = True
        if sum(map(ord, tag)) % 9 == 0:  # not drawn, as above
            born = {"tag": f"{tag}.late", "kind": "mutation"}
            spec["late"] = [born, {**born, "call": True, "children": [born]}]
        return spec

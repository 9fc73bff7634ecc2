"""Which attributes a function reads from the task: by the object, not by the name of the attribute."""

from __future__ import annotations

import textwrap

import pytest

from luigi_pai.payload.flow import flow_of, receiver


class Kind:
    """A class of the task."""


def helper(task, n=1):
    return task.rate * n


def by_keyword(*, task):
    return task.rate


FOLLOWED = {  # method: attributes that it reads from the task
    "def f(self): return self.a + self.b.c": "a b",
    "def f(self, other): return other.password, self.a": "a",
    "def f(self):\n    t = self\n    u = t\n    return u.rate": "rate",
    "def f(self): return [self.a * y for y in (1, 2)] + [z for z in self.zs]": "a zs",
    "def f(self): return sum(self.a * y for y in self.ys if self.c)": "a c ys",
    "def f(self): return {y: lambda: self.a for y in self.ys}": "a ys",
    "def f(self):\n    self.count += 1\n    self.x = self.y\n    del self.z": "count x y z",
    "def f(self):\n    self.a[self.b] += self.c\n    return self.d[1:2], not self.e, -self.g": "a b c d e g",
    "def f(self): return type(self).b + self.__class__.c + Kind.d": "__class__ b c d",
    "def f(self): return super().a(self.b)": "a b",
    "def f(self): return super(Kind, self).a": "a",
    "def f(self): return helper(self), helper(self, n=len(str(3))), helper(n=4, task=self)": "",
    "def f(self): return by_keyword(task=self)": "",
    "def f(self): return getattr(self, 'a', 3), isinstance(self, Kind), hasattr(self, 'b')": "a b",
    "def f(self): return f'{self.a} {self.b!r:>4}' + '%s' % self.c": "a b c",
    "def f(self):\n    try: self.a\n    except OSError as e: return e.d if self.c else self.b": "a b c",
    "def f(self, o):\n    with self.lock as held:\n        return held.x": "lock",
    "async def f(self, o):\n    async with self.lock:\n        return await self.a(o.b)": "a lock",
    "def f(self):\n    t = None\n    def g():\n        nonlocal t\n        t = self\n    return t.a": "a",
}

ESCAPES = [
    "def f(self): return [self]",
    "def f(self): return self",
    "def f(self, other): other.task = self",
    "def f(self, other): other(self)",
    "def f(self, other): other.run(1, task=self)",
    "def f(self):\n    for t in (self,): t.rate",
    "def f(*args): return args[0].rate",
    "def f(self): return helper(**{'task': self})",
    "def f(self, other):\n    with other(self) as t: t.rate",
    "def f(self):\n    def g(t): return t.rate\n    return g(self)",
    "def f(self):\n    global kept\n    kept = self",
    "def f(self): yield self",
    "def f(self): return Kind()",
]


def flow(source):
    space = {"Kind": Kind, "helper": helper, "by_keyword": by_keyword}
    exec(textwrap.dedent(source), space)
    return flow_of(space["f"], receiver(space["f"]), [Kind])


@pytest.mark.parametrize("source", FOLLOWED)
def test_the_task_is_followed(source):
    found = flow(source)
    assert " ".join(sorted(found.names)) == FOLLOWED[source]
    assert not found.escapes


@pytest.mark.parametrize("source", ESCAPES)
def test_the_task_escapes_to_where_any_object_may_be_it(source):
    assert flow(source).escapes


def test_a_function_gets_the_task_as_one_of_its_parameters():
    found = flow("def f(self): return helper(self.a, n=self), by_keyword(task=self)")
    assert found.passed == {(helper, "n"), (by_keyword, "task")}
    assert set(flow_of(helper, {"task"}, []).names) == {"rate"}

"""A loop is written as `fori_loop` only where the program stays the same."""

from __future__ import annotations

import pytest
from rewritten import block_of, replaced

from coldstep.analysis.remedies.loops import as_fori_loop, as_vmap

HEAD = "def f(key, x, n):\n"


def loop(body: str, before: str = "", after: str = "    return x\n", over: str = "i in range(n)") -> str | None:
    text = f"{HEAD}{before}    for {over}:\n{body}{after}"
    line = 2 + before.count("\n")
    block = block_of(text, line)
    return replaced(text, as_fori_loop(block, line, {"key", "x"})) if block is not None else None


def test_a_loop_carries_what_a_turn_hands_on_and_no_more() -> None:
    made = loop("        key, part = split(key)\n        y = part + 1\n        x = x * y  # kept\n")
    assert made == (
        f"{HEAD}    from jax.lax import fori_loop\n    \n    def turn(i, carry):\n        key, x = carry\n"
        "        key, part = split(key)\n        y = part + 1\n        x = x * y  # kept\n        return key, x\n    \n"
        "    key, x = fori_loop(0, n, turn, (key, x))\n    return x\n"
    )
    made = loop("        x += jnp.sin(i)\n", over="i in range(2, n)")
    assert made is not None
    assert "def turn(i, x):\n        x += jnp.sin(i)\n        return x\n" in made
    assert "x = fori_loop(2, n, turn, x)" in made


def test_what_begins_as_a_number_has_its_first_turn_before_the_loop() -> None:
    body = "        loss, grad = jax.value_and_grad(g)(x, key[i])\n        y = y + loss\n"
    made = loop(f"{body}        x = jax.tree.map(lambda a, b: a - b, x, grad)\n", before="    y = 0.0\n")
    assert made is not None
    assert "    y, x = fori_loop(1, n, turn, turn(0, (y, x)))\n    return x\n" in made
    made = loop("        x = x + jnp.sin(i)\n", before="    x = 0\n", over="i in range(k, n)")
    assert made is not None
    assert "    x = fori_loop((k) + 1, n, turn, turn(k, x))\n" in made
    for begun in ("[]", "'a'", "None", "True", "()"):
        assert loop("        x = x + jnp.sin(i)\n", before=f"    x = {begun}\n") is None


def test_a_function_that_is_called_as_a_method_of_a_dict_is_one_like_any_other() -> None:
    made = loop("        key, part = jax.random.split(key)\n        x = update(x, part)\n")
    assert made is not None
    assert "key, x = fori_loop(0, n, turn, (key, x))" in made
    assert loop("        x = state.update(x)\n") is None
    assert loop("        x = concatenate(x)\n") is None


def test_the_elements_of_an_array_that_is_given_are_picked_by_their_place() -> None:
    made = loop("        x = g(x, one)\n", over="one in key")
    assert made is not None
    assert "def turn(at, x):\n        one = key[at]\n        x = g(x, one)\n        return x\n" in made
    assert "x = fori_loop(0, len(key), turn, x)" in made
    assert loop("        x = g(x, one)\n", over="one in layers") is None
    assert loop("        x = g(x, one)\n", before="    key = parts(key)\n", over="one in key") is None
    assert loop("        key = g(key, one)\n", over="one in key") is None
    assert loop("        x = g(x, at)\n", over="at in key") is None
    assert loop("        x = g(x, one)\n", after="    return x, one\n", over="one in key") is None
    assert loop("        x = g(x, a, b)\n", over="a, b in key") is None


def test_a_parameter_of_a_lambda_is_no_name_of_the_function() -> None:
    made = loop("        x = g(lambda a: a + 1, x)\n", after="    return g(lambda a: a / 2, x)\n")
    assert made is not None
    assert "x = fori_loop(0, n, turn, x)" in made


@pytest.mark.parametrize(
    "body",
    [
        "        x = x + 1\n        print(x)\n",
        "        x = x + 1\n        if i:\n            x = x + 1\n",
        "        x = x + 1\n        break\n",
        "        x = x + (yield x)\n",
        "        x = x + layers[i]\n",
        "        x = x + other[i]\n",
        "        x = x[i:]\n",
        "        x = x.reshape(i)\n",
        "        x = x + jnp.zeros(i)\n",
        "        x = x + g(i)\n",
        "        x = x ** i\n",
        "        x = x + float(i)\n",
        "        x = x + names[f'{i}']\n",
        "        x = x if i == 0 else x + 1\n",
        "        x = x + np.random.rand()\n",
        "        x = x + random.random()\n",
        "        x = jnp.concatenate((x, x))\n",
        "        x = xs.append(x)\n",
        "        x = x + (y := 1)\n",
        "        x = [*x, 1]\n",
        "        x[i] = 1\n",
        "        self.x = x\n",
        "        i = x = x + 1\n",
        "        i = x + 1\n        x = i\n",
        "        y = x + 1\n",
        "        x = x + turn\n",
        "        for j in range(3):\n            x = x + 1\n",
        "        import os\n        x = x + 1\n",
    ],
)
def test_a_loop_of_which_a_turn_does_more_stays(body: str) -> None:
    assert loop(body) is None


@pytest.mark.parametrize(
    ("before", "after", "over"),
    [
        ("", "    return x, i\n", "i in range(n)"),
        ("", "    return x, y\n", "i in range(n)"),
        ("    if n:\n        y = x\n", "    return x, y\n", "i in range(n)"),
        ("", "    return x\n", "i in xs"),
        ("", "    return x\n", "i in range(0, n, 2)"),
        ("", "    return x\n", "i, j in range(n)"),
        ("    x = 0.0\n", "    return x\n", "i in range(n)"),
        ("", "    else:\n        x = 0\n    return x\n", "i in range(n)"),
        ("    def turn(): pass\n", "    return x\n", "i in range(n)"),
        ("    def g(): return x\n", "    return x\n", "i in range(n)"),
        ("    g = lambda: y + 1\n", "    return x\n", "i in range(n)"),
        ("    global y\n", "    return x\n", "i in range(n)"),
    ],
)
def test_a_loop_that_is_read_otherwise_stays(before: str, after: str, over: str) -> None:
    assert loop("        y = x + 1\n        x = y\n", before, after, over) is None


def test_the_index_is_used_where_a_traced_one_will_do() -> None:
    body = "        x = x + jnp.sin(0.1 * i) * x[i]\n        x = x.at[i].set(i / 2)\n"
    assert loop(f"{body}        key = jax.random.fold_in(key, i)\n") is not None
    assert loop("        x = x + jnp.sum(x * i)\n") is not None


def listed(line: str, after: str = "    return jnp.stack(made)\n") -> str | None:
    text = f"{HEAD}    keys = jax.random.split(key, n)\n    {line}\n{after}"
    block = block_of(text, 3)
    return replaced(text, as_vmap(block, 3, {"key", "x"})) if block is not None else None


def test_a_list_that_is_stacked_is_mapped() -> None:
    made = listed("made = [jax.random.normal(keys[i], (8,)) for i in range(n)]")
    assert made is not None
    mapped = "jax.vmap(lambda i: jax.random.normal(keys[i], (8,)))(jnp.arange(n))"
    assert f"\n    made = {mapped}\n    return jnp.stack(made)\n" in made
    made = listed("return jnp.array([jnp.sin(x[i]) for i in range(2, n)]).sum()", "")
    assert made is not None
    assert "return jax.vmap(lambda i: jnp.sin(x[i]))(jnp.arange(2, n)).sum()" in made
    assert "import" not in made  # which would hide the module's jax from the line above


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("made = [f(keys[i]) for i in range(n) if i]", "    return jnp.stack(made)\n"),
        ("made = [layers[i](x) for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [jnp.sin(k) for k in keys]", "    return jnp.stack(made)\n"),
        ("made = [jnp.zeros(i) for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [np.random.rand() + keys[i] for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [jnp.sin(x[i]) for i in range(n)]", "    return jnp.stack(made, axis=1)\n"),
        ("made = [jnp.sin(x[i]) for i in range(n)]", "    return np.stack(made)\n"),
        ("made = [jnp.sin(x[i]) for i in range(n)]", "    return jnp.stack(made), made[0]\n"),
        ("made = [jnp.sin(x[i]) for i in range(n)]", "    return made\n"),
        ("made = [(jnp.cos(x[i]), jnp.sin(x[i])) for i in range(n)]", "    return jnp.array(made)\n"),
        ("made = [ends(x[i]) for i in range(n)]", "    return jnp.asarray(made)\n"),
        ("made = [jax.random.normal(rngs(), (2,)) for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [jax.random.normal(key, (2,)) for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [nn.Dense(8)(x[i]) for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [self.layer(x[i]) for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [jnp.sum(x, axis=i) for i in range(n)]", "    return jnp.stack(made)\n"),
        ("made = [jnp.take(x, 0, i) for i in range(n)]", "    return jnp.stack(made)\n"),
    ],
)
def test_a_list_of_which_more_is_made_stays(line: str, after: str) -> None:
    assert listed(line, after) is None


def test_what_is_split_is_a_list_which_no_traced_number_can_pick_from() -> None:
    text = f"{HEAD}    parts = jnp.split(x, 4)\n    return jnp.stack([jnp.tanh(parts[i]) for i in range(4)])\n"
    block = block_of(text, 3)
    assert block is not None
    assert as_vmap(block, 3, {"x"}) is None
    assert loop("        x = x + jnp.sum(parts[i])\n", before="    parts = jnp.split(x, 4)\n") is None
    assert loop("        y = x[i]\n", before="    y = key\n    x = [x, x]\n", after="    return y\n") is None

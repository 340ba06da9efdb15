"""Train one linear model on the data of many groups, with the mean of the groups' losses and gradients."""

import jax
import jax.numpy as jnp

rng = jax.random.key(0)
names = [f"group_{number:02}" for number in range(16)]
xs = {name: jax.random.normal(jax.random.fold_in(rng, number), (20, 3)) for number, name in enumerate(names)}
ys = {name: xs[name] @ jnp.array([1.0, -2.0, 0.5]) for name in names}


def loss_fn(params, x, y):
    return jnp.mean((jnp.tanh(x @ params["in"]) @ params["out"] - y) ** 2)


group_loss_and_grad = jax.jit(jax.value_and_grad(loss_fn))


@jax.jit
def loss_and_grad(params, xs, ys):
    results = [group_loss_and_grad(params, xs[name], ys[name]) for name in sorted(xs)]
    losses = [loss for loss, _ in results]
    grads = jax.tree.map(lambda *parts: sum(parts) / len(parts), *[grad for _, grad in results])
    return sum(losses) / len(losses), grads


params = {"in": jnp.eye(3, 4) * 0.5, "out": jnp.ones(4) * 0.1}
for _ in range(4):
    loss, grads = loss_and_grad(params, xs, ys)
    params = jax.tree.map(lambda value, grad: value - 0.1 * grad, params, grads)
    print("loss", repr(float(loss)))
# /// thread
# address = "https://github.com/jax-ml/jax/issues/16084"
# asked = """\
# Compiling is very slow for a tree_map of one jitted loss over a large number of groups inside a jitted \
# function."""
# answer = """\
# Every call of the inner jitted function is inlined in the outer program, once for each leaf; keep it from being \
# inlined (Equinox's noinline), or jit only the function of one group and map it outside of jit."""
# stack = "jax"
# mechanism = "unrolled"
# argument = "group_loss_and_grad"
# before = ""
# after = ""
# line = 21
# lines_accepted = [16, 20, 22, 29]
# compiles = [16, 1]
# counted = """\
# copies of the group's loss in compiled programs (calls of it in the jaxpr of loss_and_grad; with the cure it is \
# compiled once by itself)"""
# cure = "Leave out the outer jax.jit, so that the jitted function of one group is compiled once."
# cure_lines = [
#   {line = 19, code = ""},
# ]
# cure_environment = {}
# losses = "equal"
# ///

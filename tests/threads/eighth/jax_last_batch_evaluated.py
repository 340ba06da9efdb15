"""Fine-tunes a summarizer of Flax, and evaluates it on all of the examples: the last batch is what remains."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Summarizer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(30, 16)(tokens)
        return nn.Dense(30)(nn.relu(nn.Dense(32)(x + x.mean(1, keepdims=True))))


def data_loader(dataset, batch_size, drop_last):
    batches = len(dataset) // batch_size if drop_last else -(-len(dataset) // batch_size)
    for at in range(batches):
        yield dataset[at * batch_size : (at + 1) * batch_size]


model = Summarizer()
optimizer = optax.adamw(1e-2)


def loss_fn(params, batch):
    losses = optax.softmax_cross_entropy_with_integer_labels(model.apply(params, batch[:, :-1]), batch[:, 1:])
    return losses.mean(-1)


@jax.jit
def train_step(params, opt_state, batch):
    loss, grads = jax.value_and_grad(lambda params: loss_fn(params, batch).mean())(params)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


@jax.jit
def eval_step(params, batch):
    return loss_fn(params, batch)


rng = np.random.default_rng(0)
train_set, eval_set = rng.integers(0, 30, (64, 10)), rng.integers(0, 30, (37, 10))
params = model.init(jax.random.key(0), jnp.zeros((1, 9), "int32"))
opt_state = optimizer.init(params)
for _ in range(3):
    for batch in data_loader(train_set, 16, drop_last=True):
        params, opt_state, loss = train_step(params, opt_state, batch)
    losses = np.concatenate([eval_step(params, batch) for batch in data_loader(eval_set, 8, drop_last=False)])
    print("loss", repr(float(loss)), repr(float(losses.mean())))
# /// thread
# address = "https://github.com/huggingface/transformers/pull/17863"
# asked = "Why do the Flax examples drop the last batch in evaluation, which then is not of the whole dataset?"
# answer = """\
# XLA is not polymorphic in shapes: a last batch of another shape triggers a recompilation. In evaluation, pad it \
# and cut the results."""
# stack = "jax"
# mechanism = "shape"
# argument = "batch"
# before = "(8, 10)"
# after = "(5, 10)"
# line = 51
# lines_accepted = [20, 40]
# compiles = [2, 1]
# counted = "compiles of eval_step (jax_log_compiles)"
# cure = "Pad the last batch, and cut what comes of it."
# cure_lines = [
#   {line = 51, code = """
#     batches = [np.pad(batch, ((0, 8 - len(batch)), (0, 0))) for batch in data_loader(eval_set, 8, drop_last=False)]
#     losses = np.concatenate([eval_step(params, batch) for batch in batches])[: len(eval_set)]"""},
# ]
# cure_environment = {}
# losses = "close"
# ///

"""REINFORCE: a pole is balanced on a cart, and after each episode the policy learns from what happened in it."""

import keras
import numpy as np
import tensorflow as tf

policy = keras.Sequential([keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(2)])
optimizer = keras.optimizers.Adam(1e-2)


@tf.function
def act(state, explore):
    logits = policy(state[None])
    action = tf.random.categorical(logits, 1)[0, 0]
    return tf.where(tf.random.uniform([]) < explore, tf.random.uniform([], 0, 2, tf.int64), action)


@tf.function
def learn(states, actions, returns):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(actions, policy(states))
        loss = tf.reduce_mean(losses * returns)
    variables = policy.trainable_variables
    optimizer.apply(tape.gradient(loss, variables), variables)
    return loss


class CartPole:
    def __init__(self, random):
        self.state = random.uniform(-0.05, 0.05, 4)

    def step(self, action):
        _, speed, angle, turning = self.state
        force = 10.0 if action else -10.0
        push = (force + 0.05 * turning**2 * np.sin(angle)) / 1.1
        angular = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        linear = push - 0.05 * angular * np.cos(angle) / 1.1
        self.state = self.state + 0.02 * np.array([speed, linear, turning, angular])
        return abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21


keras.utils.set_random_seed(0)
random = np.random.default_rng(0)
explore = 0.5
for episode in range(12):
    cart, states, actions = CartPole(random), [], []
    while len(states) < 60:
        states.append(cart.state.astype(np.float32))
        actions.append(int(act(states[-1], explore)))
        if cart.step(actions[-1]):
            break
    returns = np.cumsum(0.99 ** np.arange(len(states)))[::-1].astype(np.float32)
    loss = learn(np.array(states), np.array(actions), (returns - returns.mean()) / (returns.std() + 1e-6))
    explore = max(0.1, round(explore * 0.9, 3))
    print(f"episode {episode}: {len(states)} steps, loss {float(loss):.3f}")

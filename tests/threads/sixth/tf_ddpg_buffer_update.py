"""Learns to push a cart to the middle by DDPG: a buffer, an actor, a critic and their targets."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from keras import layers

GAMMA, TAU = 0.99, 0.005
keras.utils.set_random_seed(0)


def get_actor():
    return keras.Sequential(
        [keras.Input((2,)), layers.Dense(32, activation="relu"), layers.Dense(1, activation="tanh")]
    )


def get_critic():
    state, action = keras.Input((2,)), keras.Input((1,))
    hidden = layers.Dense(32, activation="relu")(layers.Concatenate()([state, action]))
    return keras.Model([state, action], layers.Dense(1)(hidden))


actor_model, critic_model, target_actor, target_critic = get_actor(), get_critic(), get_actor(), get_critic()
target_actor.set_weights(actor_model.get_weights())
target_critic.set_weights(critic_model.get_weights())
critic_optimizer, actor_optimizer = keras.optimizers.Adam(2e-3), keras.optimizers.Adam(1e-3)


class Buffer:
    def __init__(self, capacity=200, batch_size=16):
        self.capacity, self.batch_size, self.count = capacity, batch_size, 0
        self.state, self.next_state = np.zeros((capacity, 2), "float32"), np.zeros((capacity, 2), "float32")
        self.action, self.reward = np.zeros((capacity, 1), "float32"), np.zeros((capacity, 1), "float32")

    def record(self, state, action, reward, next_state):
        at = self.count % self.capacity
        self.state[at], self.action[at], self.reward[at], self.next_state[at] = state, action, reward, next_state
        self.count += 1

    def learn(self):
        chosen = np.random.choice(min(self.count, self.capacity), self.batch_size)
        columns = (self.state, self.action, self.reward, self.next_state)
        return self.update(*(tf.convert_to_tensor(column[chosen]) for column in columns))

    def update(self, state, action, reward, next_state):
        with tf.GradientTape() as tape:
            y = reward + GAMMA * target_critic([next_state, target_actor(next_state, training=True)], training=True)
            critic_loss = tf.reduce_mean(tf.square(y - critic_model([state, action], training=True)))
        grad = tape.gradient(critic_loss, critic_model.trainable_variables)
        critic_optimizer.apply_gradients(zip(grad, critic_model.trainable_variables, strict=True))
        with tf.GradientTape() as tape:
            actor_loss = -tf.reduce_mean(critic_model([state, actor_model(state, training=True)], training=True))
        grad = tape.gradient(actor_loss, actor_model.trainable_variables)
        actor_optimizer.apply_gradients(zip(grad, actor_model.trainable_variables, strict=True))
        return critic_loss


def update_target(target_weights, weights, tau):
    for target, weight in zip(target_weights, weights, strict=True):
        target.assign(weight * tau + target * (1 - tau))


buffer, state = Buffer(), np.array([1.0, 0.0], "float32")
for step in range(30):
    action = np.clip(actor_model(state[None])[0].numpy() + 0.1 * np.random.normal(size=1), -1.0, 1.0)
    next_state = np.array([state[0] + 0.1 * state[1], state[1] + 0.1 * action[0]], "float32")
    buffer.record(state, action, -float(next_state[0] ** 2), next_state)
    critic_loss = buffer.learn()
    update_target(target_actor.variables, actor_model.variables, TAU)
    update_target(target_critic.variables, critic_model.variables, TAU)
    state = next_state
    if step % 10 == 9:
        print("loss", repr(float(critic_loss)))
# /// thread
# address = "https://github.com/keras-team/keras-io/pull/250"
# asked = "The DDPG example learns slowly."
# answer = """\
# Decorate the update and the averaging of the targets with tf.function: graphs instead of Python code."""
# stack = "tensorflow"
# mechanism = "silent_eager"
# argument = "update"
# before = ""
# after = ""
# line = 50
# lines_accepted = [48, 51, 55, 56, 59, 63, 73, 74, 75]
# compiles = [0, 3]
# counted = "traces of update and update_targets (functions that func_graph_from_py_func traced)"
# cure = "Decorate both with tf.function."
# cure_lines = [
#   {line = 50, code = """
#     @tf.function
#     def update(self, state, action, reward, next_state):"""},
#   {line = 68, code = """
# @tf.function
# def update_targets():
#     update_target(target_actor.variables, actor_model.variables, TAU)
#     update_target(target_critic.variables, critic_model.variables, TAU)
#
#
# buffer, state = Buffer(), np.array([1.0, 0.0], "float32")"""},
#   {line = 74, code = "    update_targets()"},
#   {line = 75, code = ""},
# ]
# cure_environment = {}
# losses = "close"
# ///

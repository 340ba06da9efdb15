"""Roll out a small Keras policy step by step; the model is compiled with jit_compile=True."""

import keras
import numpy as np

keras.utils.set_random_seed(0)


class Policy(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8, activation="tanh")
        self.out = keras.layers.Dense(2)

    def call(self, state):
        return self.out(self.hidden(state))


policy = Policy()
policy.compile(jit_compile=True)
state = np.array([[0.5, -0.5]], dtype="float32")
for _ in range(8):
    action = policy(state)
    state = 0.9 * state + 0.1 * np.asarray(action)
    print("value", repr(float(state.sum())))
# /// thread
# address = "https://github.com/keras-team/keras-core/issues/762"
# asked = "After model.compile(jit_compile=True) a print inside a layer's code shows at every call of model(x)."
# answer = "compile's jit_compile counts for fit, evaluate and predict; model(x) runs eagerly unless you compile it."
# stack = "tensorflow"
# mechanism = "silent_eager"
# argument = "policy(state)"
# before = ""
# after = ""
# line = 23
# lines_accepted = [15, 20]
# compiles = [9, 3]
# counted = "times that Python runs Policy.call: one to build, then at each step (with the cure while tracing only)"
# cure = "Wrap the direct call: act = tf.function(policy), and call act(state)."
# cure_lines = [
#   {line = 4, code = "import numpy as np\nimport tensorflow as tf"},
#   {line = 20, code = "policy.compile(jit_compile=True)\nact = tf.function(policy)"},
#   {line = 23, code = "    action = act(tf.constant(state))"},
# ]
# cure_environment = {}
# losses = "equal"
# ///

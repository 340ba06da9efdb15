"""Two lambdas in one line."""
# expect: nothing

import tensorflow as tf

double, triple = tf.function(lambda x: x * 2), tf.function(lambda x: x * 3)
double(tf.ones(2))
triple(tf.ones(3))

"""Has Ray's tasks and actors compile: one actor is killed, the other ends as the driver does. With the word `attach`
on a cluster that runs already, without coldstep's variables."""

import os
import subprocess
import sys

import doubler
import ray
from counting import jax_counted

SIZE = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 80 << 20, "log_to_driver": False}
CLUSTER = f"import ray, sys; print(ray.init(**{SIZE}).address_info['gcs_address'], flush=True); sys.stdin.read()"
VARIABLES = {key: os.environ[key] for key in os.environ if key.startswith("COLDSTEP")}


@ray.remote(num_cpus=1)
def task(n):
    """Compiles in a worker that any task may run in."""
    jax, count = jax_counted()
    value = float(jax.jit(lambda x: x + 1)(jax.numpy.ones(n)).sum())
    count()
    return value


Model = ray.remote(num_cpus=0)(doubler.Model)


def drive():
    """What the driver does; it leaves as soon as it has the last value."""
    killed, stays = Model.remote(), Model.remote()
    print(ray.get([killed.step.remote(3), killed.step.remote(4)]))
    ray.kill(killed)
    try:
        while True:  # it may answer before that reaches it
            ray.get(killed.step.remote(3))
    except ray.exceptions.RayActorError as error:
        print(type(error).__name__)
    print(ray.get([task.remote(3)]), ray.get([stays.step.remote(3), stays.step.remote(5)]))
    sys.exit(3)


if "attach" in sys.argv:
    without = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    with subprocess.Popen([sys.executable, "-c", CLUSTER], env=without, text=True, stdin=-1, stdout=-1) as cluster:
        address = cluster.stdout.readline().strip()
        ray.init(address, runtime_env={"env_vars": VARIABLES}, log_to_driver=False)
        drive()
else:
    ray.init(**SIZE)
    drive()

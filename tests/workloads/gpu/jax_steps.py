"""JAX: a few gradient steps. XLA_PYTHON_CLIENT_ALLOCATOR selects the allocator."""

import figures
import jax
import jax.numpy as jnp


def main():
    if jax.default_backend() not in ("gpu", "cuda"):
        raise SystemExit("SKIP JAX here has no CUDA plugin")
    key = jax.random.PRNGKey(0)
    weights = jax.random.normal(key, (2048, 2048))
    inputs = jax.random.normal(key, (512, 2048))

    @jax.jit
    def step(weights, inputs):
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(inputs @ w) ** 2))(weights)
        return weights - 0.1 * gradient, loss

    for _ in range(5):
        weights, loss = step(weights, inputs)
    loss.block_until_ready()
    figures.tell(loss=float(loss))


if __name__ == "__main__":
    main()

"""Drop-ins for other privacy tools. Each module imports its package, so it needs that package; nothing else does.

- `ndis.interop.dp_accounting`: `ExactAccountant`, `from_event` and `to_pld` for Google's dp_accounting.
- `ndis.interop.opacus`: `ExactAccountant` for Opacus, registered there under the name "exact".
- `ndis.interop.loaders`: `warn_unless_poisson` for data loaders of torch; it needs no other package.

docs/interop.md has recipes for jax-privacy, riskcal, prv_accountant, autodp and OpenDP.
"""

"""`python -m glassformer` is `glassformer`."""

from glassformer.cli.main import main

main()

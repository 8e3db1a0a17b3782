"""The command line, noun by noun; ../test_cli.py runs it all."""

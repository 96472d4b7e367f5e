"""Many runs: trained through an engine, and kept in a store.

`twoaxis.runs.sweep` trains them; listing, verification, pruning and export look after a store,
which is what `twoaxis.train` and `twoaxis.sweep` fill. Names and texts in a store may come from
anywhere: nothing here follows a link, runs code from a file or trusts what a file says.
"""

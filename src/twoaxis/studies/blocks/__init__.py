"""The blocks of the study, one a file. `twoaxis.studies.registry` lists them."""

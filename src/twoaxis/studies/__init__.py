"""The study reproduced: every table and figure of the paper, from data to table.

One paper block a file in ``blocks/``, the printed figures as data in ``published/``, what is read
out of a trained field in ``readouts/``. `twoaxis.reproduce` is the front door.
"""

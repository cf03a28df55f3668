"""Host kernels in NumPy, one file a family; each file ends in its rows of the operator table, ``SPECS``."""

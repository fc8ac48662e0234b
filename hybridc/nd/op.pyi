# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from hybridc.array.drawn_arrays import *
from hybridc.array.operator_functions import *

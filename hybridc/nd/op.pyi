# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from hybridc.array.operator_functions import *

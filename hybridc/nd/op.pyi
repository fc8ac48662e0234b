# Written by python -m hybridc.stubs; do not edit.
from hybridc.array.operator_functions import *

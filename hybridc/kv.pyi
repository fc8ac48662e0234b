# Written by python -m hybridc.tools.stubs; do not edit.
from hybridc.kvstore import *

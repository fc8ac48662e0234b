# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
from hybridc.nd.namespace import lookup as lookup
from hybridc.array import operator_functions as _functions
det = _functions.linalg_det
extractdiag = _functions.linalg_extractdiag
extracttrian = _functions.linalg_extracttrian
gelqf = _functions.linalg_gelqf
gemm = _functions.linalg_gemm
gemm2 = _functions.linalg_gemm2
inverse = _functions.linalg_inverse
makediag = _functions.linalg_makediag
maketrian = _functions.linalg_maketrian
potrf = _functions.linalg_potrf
potri = _functions.linalg_potri
slogdet = _functions.linalg_slogdet
sumlogdiag = _functions.linalg_sumlogdiag
syevd = _functions.linalg_syevd
syrk = _functions.linalg_syrk
trmm = _functions.linalg_trmm
trsm = _functions.linalg_trsm


Bdp_reduce_scatterJ05Í¿þÛÇ¾ÆÎ·¿
$?æ+MÀêÿW?»gR¾IÜŠ¿áË¾}?lkD@ÌŽ¢>
Btp_reduce_scatterJ0t¿âc£?k„À*+?—Û¿éÐ¾Ô*ô¾D×_>Z
 ¾8'>LO@Í ¾
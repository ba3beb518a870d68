BnumbersJ`cA
ášAn¾™A}’¨A—QµA­´µAãöœAñ9‹A£<£Añã¬AH¶A»·AÂ=Aó›AaŸA™Aƒá³AR¤¹Aµ’AqÒ¢A5ı¢Az¨A|0¶AE ·A
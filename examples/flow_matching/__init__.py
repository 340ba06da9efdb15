"""Small molecules by a continuous flow, in sizes that vary: padding against recompiling, and what is learnt"""

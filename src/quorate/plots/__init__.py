"""Curves as pictures, with nothing but the standard library. The map of the room:

plot.py      Plot and Series: what is drawn
scale.py     number; axes with ticks at round numbers
terminal.py  spark, text, Drawing: in a terminal, a file or a pipe
picture.py   svg
page.py      page: plots and their numbers as HTML
"""

from quorate.plots.page import page
from quorate.plots.picture import svg
from quorate.plots.plot import Plot, Series
from quorate.plots.scale import number
from quorate.plots.terminal import LEVELS, Drawing, spark, text

__all__ = ["LEVELS", "Drawing", "Plot", "Series", "number", "page", "spark", "svg", "text"]

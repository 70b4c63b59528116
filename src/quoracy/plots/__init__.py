"""Curves as pictures, with nothing but the standard library. The map of the room:

plot.py      Plot and Series: what is drawn
scale.py     number; axes with ticks at round numbers
terminal.py  spark, text, Drawing: in a terminal, a file or a pipe
picture.py   svg
page.py      page: plots and their numbers as HTML
"""

from quoracy.plots.page import page
from quoracy.plots.picture import svg
from quoracy.plots.plot import Plot, Series
from quoracy.plots.scale import number
from quoracy.plots.terminal import LEVELS, Drawing, spark, text

__all__ = ["LEVELS", "Drawing", "Plot", "Series", "number", "page", "spark", "svg", "text"]

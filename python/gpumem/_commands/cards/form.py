"""The JSON of `gpumem card list` and `gpumem card show`."""

from typing import List

from ..._text.forms import CardFile, Form

LIST = Form("card-list", List[CardFile])
SHOW = Form("card-show", CardFile)

"""`netfold report`: one page about a results or sweep folder that opens offline and holds all it shows.

data: what of a results folder the page shows, as plain values. many: the same of a sweep's folder. page: the
template filled. page.html, page.css, page.js: the template; plotly.js comes from the plotly package. cli: the
command.
"""

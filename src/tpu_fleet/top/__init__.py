"""`tpu-fleet top`: the fleet as one live screen, and as one table where there is no terminal.

`lines` makes rows of what is known, `columns` and `board` make text of the rows, `closer` looks at
the selected run; only `app` needs Textual.

May import: contract, commands, history, page, queue, show, workers.
"""

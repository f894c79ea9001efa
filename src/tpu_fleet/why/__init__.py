"""Why a run stands: the evidence of its workers, judged into one sentence, and shown.

`judge` is pure: what each worker shows goes in, findings come out, and the first is the answer.

May import: show, workers.
"""

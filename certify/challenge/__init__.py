"""The challenge: valid archives, corrupted in many ways, that every auditor must tell from valid ones.

`archives` makes the files of an episode in memory, `controls` the unusual but valid episodes, `records`, `identity` and
`files` the corruptions, `tools` what is under test, and `run` draws the cases, seals what is expected of them, and
counts.
"""

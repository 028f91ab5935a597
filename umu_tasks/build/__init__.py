"""`umu data build`: a table of people and their photos become a data set in UMU-Bench's layout, on this machine alone.

    people.csv + photos/  ->  table.py    rows of text, each with its line
                          ->  people.py   who it is, which photo, which facts
    templates.yaml        ->  templates.py  how each fact is asked, with and without the photo
                          ->  distractors.py, questions.py  the questions and their wrong options
    leaving.txt           ->  forget_lists.py  who is to be forgotten
                          ->  dataset.py  the splits, written whole or not at all

Nothing here opens a connection: files in, files out.
"""

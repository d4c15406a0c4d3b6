"""The projector: folds the log into the tables, decides claims, and answers with what the fold gave."""

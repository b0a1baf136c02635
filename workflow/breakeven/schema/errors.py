"""The one exception that is a message to the user."""


class UserError(Exception):
    """Something the user can mend: the message says what is wrong, where, and what would be right.

    Entry points print the message alone and exit with code 2; a traceback means a defect of ours instead.
    """

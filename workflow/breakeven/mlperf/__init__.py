"""Published MLPerf Training results: result logs to run facts (``logs``), a round's archive to a table of run facts
(``extract``, ``table``), and run facts to official scores (``score``)."""

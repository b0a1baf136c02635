"""The words of the project as frozen standard-library types: spec, record, status, point, and what is known of each
strategy, workload and technique. Everything else imports this room; it imports nothing."""

"""What running the daemon needs: alerts, jobs, users, secrets, audit, retention."""

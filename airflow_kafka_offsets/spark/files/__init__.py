"""Files as a driver reaches them: by Hadoop, or by the server of Spark Connect."""

"""Would the tests notice if the code were wrong?"""
